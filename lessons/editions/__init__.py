"""The two editions for reading: pages (``lessons.editions.site``) and a printed book (``lessons.editions.printed``).

Both show what a lesson leaves behind when it is run once, from top to bottom (``lessons.editions.executed``).
"""
