def model_states(parameters: int, *, precision: str) -> dict[str, int]:
    """Bytes of the model states of one GPU that trains with Adam: so many bytes a parameter, times the parameters."""
    value = 4 if precision == "fp32" else 2

    # Two running means a parameter, always in 4 bytes: a small change to a large mean would be lost in bf16.
    adam = 2 * 4

    # Gap. Which rule does the right number keep? In bf16, a step smaller than the last digit must not be lost.
    master = 0

    return {
        "parameters": value * parameters,
        "gradients": value * parameters,
        "optimizer_states": (adam + master) * parameters,
    }
