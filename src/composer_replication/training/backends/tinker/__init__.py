"""Adapter to servers of the Tinker API: SkyRL's, the hosted one, and others that speak it."""

COMPOSITE = "sampled-token"
LOST = (
    "channel 2 compares sampled tokens and not whole distributions: jsd_beta may be 1 or its default and does nothing; "
    "other values, top_k and token_clip are refused",
    "no gradient-ratio cap: the server gives no gradients, so the weights of the channels hold as they are",
    "adapters alone are trained, of hardware.lora_rank; whether gradients are clipped is the server's affair",
    "no alarm on empty hints, entropy or the teacher's divergence: the server gives no distributions",
)
