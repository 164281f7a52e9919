"""Changes for ranks on CPUs: two that these need, and a speed-up. The room goes where nobody trains on them."""

from trainer_service.verl.rank.patches.cpu import shared_prefixes, single_gloo_backend, unpinned_offload

PATCHES = (single_gloo_backend, unpinned_offload, shared_prefixes)
