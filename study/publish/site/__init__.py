"""The site: static pages of the claims, sweeps, arms, runs and sentences of one folder. Needs no torch."""
