def model_states(parameters: int, *, precision: str) -> dict[str, int]:
    """Bytes of the model states of one GPU that trains with Adam: so many bytes a parameter, times the parameters."""
    value = 4 if precision == "fp32" else 2
    return {
        "parameters": value * parameters,
        "gradients": value * parameters,
        "optimizer_states": 2 * value * parameters,
    }
