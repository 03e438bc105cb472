package catalog

import (
	"context"
	"crypto/sha256"
	"io"

	"spoolwright/catalog/picture"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// PictureQuery are the parameters of a picture.
type PictureQuery struct {
	Size    value.Optional[string] `query:"size" rule:"default=full,enum=full|small,named=PictureSize"`
	Version value.Optional[string] `query:"version"`
}

// Known returns the version of the picture that the client has, or "".
func (q PictureQuery) Known() string { return q.Version.Or("") }

const pictureKept = "The service decodes the picture and encodes it again, with a width and a height of at most 512 " +
	"pixels. It keeps nothing else of the file, such as the place where a photo was taken."

var getPictureDoc = &server.Doc{
	ID: "getProductPicture", Tag: Tag, Summary: "Get the picture of a product",
	Description: "The picture as PNG or JPEG. The `ETag` identifies the picture. A request with the parameter " +
		"`version` lets browsers cache the picture, because each picture has its own `picture_version`.",
}

func (h handlers) getPicture(ctx context.Context, r *server.Request[PictureQuery]) (*server.Picture, error) {
	column := "picture"
	if r.In.Size.Or("full") == "small" {
		column = "small"
	}
	p := &server.Picture{}
	read := db.SQL(`
		select i.media, p.picture_version, i.`+column+`
		from products p join product_pictures i on i.product_id in (p.id, p.variant_of)
		where p.id = $1 and p.hidden_at is null order by i.product_id <> p.id limit 1`, r.ID("id")).
		Into(&p.Media, &p.Version, &p.Data)
	return p, server.Found(read, h.db.Read(ctx, read))
}

var setPictureDoc = &server.Doc{
	ID: "setProductPicture", Tag: Tag, Summary: "Set the picture of a product",
	Description: "The body is a PNG or JPEG file of at most 5 MB and 20 million pixels, which needs at most 96 MiB " +
		"to be " +
		"decoded: 20 million pixels with 8 bits of each color, or 13 million of a progressive JPEG file of a camera. " +
		"A JPEG file has at most 100 scans. " + pictureKept,
}

func (h handlers) readPicture(ctx context.Context, _ *server.Request[struct{}], body io.Reader,
) (*picture.Picture, []byte, error) {
	// The caller is checked before the picture is decoded, which costs more.
	if err := h.db.CheckActor(ctx); err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, nil, err
	}
	p, err := new(picture.Maker).Make(ctx, data)
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(data)
	return p, sum[:], nil
}

func (h handlers) setPicture(ctx context.Context, r *server.Request[struct{}], p *picture.Picture,
) (server.NoContent, error) {
	stored := storePicture(r.ID("id"), p)
	return nil, server.Found(stored, h.db.Write(ctx, lockCatalog(), lockBase(r.ID("id")), stored, deriveVariants(r.ID("id"))))
}

func storePicture(product string, p *picture.Picture) *db.Stmt {
	return db.SQL(`
		with product as (
			update products set picture_version = $2, updated_at = now() where id = $1 and hidden_at is null returning id
		)
		insert into product_pictures (product_id, media, picture, small) select id, $3, $4, $5 from product
		on conflict (tenant_id, product_id) do update
			set media = excluded.media, picture = excluded.picture, small = excluded.small
		returning product_id`, product, p.Version, p.Media, p.Full, p.Small)
}

var deletePictureDoc = &server.Doc{
	ID: "deleteProductPicture", Tag: Tag, Summary: "Remove the picture of a product",
}

func (h handlers) deletePicture(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	removed := db.SQL(`
		with picture as (
			delete from product_pictures where product_id = $1
				and exists (select from products where id = $1 and hidden_at is null)
			returning product_id
		)
		update products set picture_version = null, updated_at = now()
		where id = (select product_id from picture) returning id`, r.ID("id"))
	return nil, server.Found(removed,
		h.db.Write(ctx, lockCatalog(), lockBase(r.ID("id")), removed, deriveVariants(r.ID("id"))))
}
