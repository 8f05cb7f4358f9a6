"""The lab scripts on several machines: files for Slurm and for Kubernetes, made from one description of the job."""
