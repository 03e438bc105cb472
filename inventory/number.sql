-- The numbers of vendors, filaments and spools, for labels.
alter table vendors alter number set default next_number('vendors');
alter table filaments alter number set default next_number('filaments');
alter table spools alter number set default next_number('spools');
