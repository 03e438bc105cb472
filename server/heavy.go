package server

import (
	"context"
	"io"
	"runtime"
	"time"

	"spoolwright/db"
	"spoolwright/server/limit"
)

// heavy divides among the farms the work that needs much processor time or memory.
type heavy struct {
	files    *limit.Queue // files that are read at the same time: at most two of a farm
	pictures *limit.Queue // bytes for the pictures that are decoded at a time
}

// The memory for decoding pictures. One picture needs at most MaxPicture, and counts as half of the memory at least,
// because it keeps a processor busy.
const (
	pictureMemory = 128 << 20
	MaxPicture    = 96 << 20
)

func newHeavy() *heavy {
	return &heavy{files: limit.NewQueue(max(8, 2*runtime.GOMAXPROCS(0)), 2), pictures: limit.NewQueue(pictureMemory)}
}

// heavyWait is how long heavy work waits for its turn.
const heavyWait = 20 * time.Second

// ReadsFile waits until the farm of the context may read another file, of an import or of a slicer. The users and keys
// of a farm take turns. The caller must call done after the work. The error is ErrUnavailable if the request ends
// meanwhile, or after 20 seconds. Outside of requests, such as in commands, ReadsFile does not wait.
func ReadsFile(ctx context.Context) (done func(), err error) {
	return waitHeavy(ctx, func(h *heavy) *limit.Queue { return h.files }, 1)
}

// DecodesPicture is ReadsFile for a picture whose decoding needs the given number of bytes.
func DecodesPicture(ctx context.Context, bytes int) (done func(), err error) {
	return waitHeavy(ctx, func(h *heavy) *limit.Queue { return h.pictures }, max(bytes, pictureMemory/2))
}

func waitHeavy(ctx context.Context, of func(*heavy) *limit.Queue, units int) (done func(), err error) {
	info, _ := ctx.Value(infoKey{}).(*requestInfo)
	if err := ctx.Err(); err != nil || info == nil || info.server == nil {
		return func() {}, err
	}
	if done, err = of(info.server.heavy).Acquire(ctx, heavyWait, units, info.groups(db.ActorOf(ctx))...); err != nil {
		return nil, ErrUnavailable.Because(err)
	}
	return done, nil
}

// DecodesBody returns the result of decode. If the body is not small, it first waits for its turn as ReadsFile does.
func DecodesBody[T any](ctx context.Context, body []byte, decode func() (T, error)) (decoded T, err error) {
	if len(body) > smallBody {
		done, err := ReadsFile(ctx)
		if err != nil {
			return decoded, err
		}
		defer done()
	}
	return decode()
}

// sharedBody is a body that is read while it arrives. The work between two calls of Read counts as the reading of a
// file, and waits for its turn as ReadsFile does. While Read waits for the client, other files can be read.
type sharedBody struct {
	body io.Reader
	ctx  context.Context
	done func() // of ReadsFile, or nil
}

func (b *sharedBody) Read(p []byte) (int, error) {
	b.release()
	n, err := b.body.Read(p)
	if err == nil {
		if b.done, err = ReadsFile(b.ctx); err != nil {
			return 0, err // a reader with all that it needs would go on
		}
	}
	return n, err
}

func (b *sharedBody) release() {
	if b.done != nil {
		b.done()
		b.done = nil
	}
}
