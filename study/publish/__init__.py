"""The folder `results/`: published records, and the tables, figures and paper made again from them."""
