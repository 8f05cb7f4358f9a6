def model_states(parameters: int, *, precision: str) -> dict[str, int]:
    """Bytes of the model states of one GPU that trains with Adam: so many bytes a parameter, times the parameters.

    precision is "fp32" (every value takes 4 bytes) or "bf16" (parameters and gradients take 2 bytes; what Adam keeps
    takes 4 bytes a value, and it keeps a copy of the parameters in 4 bytes as well, the master weights).
    Adam keeps two values a parameter: a running mean of its gradients, and one of their squares.

    Returns {"parameters": ..., "gradients": ..., "optimizer_states": ...}, whole numbers of bytes.
    """
    raise NotImplementedError("Write model_states: three numbers of bytes, each a multiple of the parameters.")
