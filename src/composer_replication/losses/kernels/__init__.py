"""Matrix products and row-wise kernels behind the losses that start from hidden states. Triton is imported lazily."""
