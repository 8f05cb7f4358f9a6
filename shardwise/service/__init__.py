"""The exam and issuing service: accounts, exams graded on the server, certificates issued once.

It needs the extra `service`; nothing outside this folder imports it before `shardwise serve` or
`shardwise service` runs.
"""
