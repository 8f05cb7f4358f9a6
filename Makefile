# Every target calls start.py, which does the same without make: python start.py learn
PYTHON ?= python3

.PHONY: learn test check doctor bench soak lessons site book classroom service stacks test-stacks

learn test check doctor bench soak lessons site book classroom service stacks test-stacks:
	@$(PYTHON) start.py $@ $(ARGUMENTS)
