-- What the rule of its account asks for a unit of an offer, while the price book is below that: the unit is not on sale then,
-- since the price belongs to the rule of another account. Null: it is sold at the price book.
alter table machine add column asking_nano_per_gpu_hour bigint check (asking_nano_per_gpu_hour >= 0);
