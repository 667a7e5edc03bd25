"""Figures: `multiples` and `agreement` make tables of what is drawn and draw them; `catalogue` lists these figures.

`panels` draws small multiples, `naming` puts names where nothing is drawn, `sweep` draws the figure of a sweep, `run`
one run, and `style` writes files. Intervals are computed with the points, so that the CSV beside a figure holds every
number in it. An average over a hole does not exist: where a declared run has no score, its arm has dots, a mark for
what is not there, and no mean.
"""
