-- The items of an order can change.
grant update, delete on order_items to spoolwright_app;
