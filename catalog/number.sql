-- The numbers of products, for labels.
alter table products alter number set default next_number('products');
