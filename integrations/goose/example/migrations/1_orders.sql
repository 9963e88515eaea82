-- +goose Up
CREATE TABLE orders (id BIGINT PRIMARY KEY, total BIGINT NOT NULL);

-- +goose Down
DROP TABLE orders;
