"""The layers of a network in words, for people who build it elsewhere from its weights."""

from ga3c.nets import Network


def listed(network: Network) -> list[str]:
    """Each module by the name that its weights have: a layer as torch shows it, and what is made of layers in the words
    of its own documentation."""
    lines = []
    for name, module in network.named_modules():
        if not name or name.split(".")[0] == "unpack":
            continue
        is_layer = type(module).__module__.startswith("torch.") and not any(module.children())
        words = repr(module) if is_layer else f"{type(module).__name__}: {_documentation(type(module))}"
        lines.append(f"{name}: {' '.join(words.split())}")
    return lines


def _documentation(kind: type) -> str:
    if kind.__module__.startswith("torch."):
        return "one after the other"
    return (kind.__doc__ or "").strip()
