"""The study's figures, a module each: `points` makes the table of what is drawn, `draw` draws that table and no more.

`catalogue` lists them. Intervals are computed in `points` (95% t intervals of an arm's mean), so that the CSV beside a
figure holds every number in it. An average over a hole does not exist: where a declared run has no score, its arm has
dots, a mark for what is not there, and no mean.
"""
