"""The demo: orders come in, a Spark pipeline makes revenue of them, its driver is killed, and every number is right.

`orders` makes the input, `truth` says in plain Python what must come out, `pipeline` is the program that a user would
write, `driver` runs and kills it, `results` reads what it wrote, `comparison` puts both side by side, `view` shows it.
`run` is the story from beginning to end.
"""
