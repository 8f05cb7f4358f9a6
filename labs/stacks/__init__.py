"""Labs that run the real stacks beside our own: DeepSpeed, Megatron Core, Accelerate, Transformers.

A script here is not named like the package that it runs: under torchrun its folder comes first where Python looks.
Outside its rank it must load without that package, so it imports it in the function that uses it.
"""
