module github.com/seed6c881748/redlock/proof

go 1.25.0

replace github.com/seed6c881748/redlock => ../
