"""`ebbtide doctor`: whether everything that a tick needs can be reached and may be used."""
