"""The core of a step, which knows no trainer: what is taught at error turns, what stored channels add, and who leads.

An adapter under `backends` hands it rows of ids and the hidden states of its own forward pass, and adds what comes back
to its loss. Nothing here imports a trainer; a test says so.
"""
