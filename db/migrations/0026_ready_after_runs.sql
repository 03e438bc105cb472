-- The definition stock/pieces creates the trigger again: each item of a run changes what orders get, not only one with
-- parts_from_stock.
drop trigger if exists pieces_insert_changed on run_items;
