"""What the cluster is and who may change it: metadata records, their image, the controller's decisions, the quorum.

Nothing here touches a clock, a file, a socket or a random source: time and randomness are arguments, effects are
return values.
"""
