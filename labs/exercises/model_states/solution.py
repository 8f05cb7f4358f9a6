def model_states(parameters: int, *, precision: str) -> dict[str, int]:
    """Bytes of the model states of one GPU that trains with Adam: so many bytes a parameter, times the parameters."""
    value = 4 if precision == "fp32" else 2

    # Two running means a parameter, always in 4 bytes: a small change to a large mean would be lost in bf16.
    adam = 2 * 4

    # In bf16 a small step would not change a weight at all, so Adam steps a copy in fp32. In fp32 the parameters
    # themselves are precise enough: there is no copy.
    master = 4 if precision == "bf16" else 0

    return {
        "parameters": value * parameters,
        "gradients": value * parameters,
        "optimizer_states": (adam + master) * parameters,
    }
