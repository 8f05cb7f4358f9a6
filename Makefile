# Every target calls start.py, which does the same without make: python start.py learn
PYTHON ?= python3

.PHONY: learn test check doctor bench soak lessons

learn test check doctor bench soak lessons:
	@$(PYTHON) start.py $@ $(ARGUMENTS)
