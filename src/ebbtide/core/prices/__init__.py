"""What nodes cost: built-in types, the price book, and cost over time."""
