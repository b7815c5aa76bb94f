-- Touches no key.
return 0
