package watch

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// mqtt is a connection of MQTT 3.1.1 (OASIS), as far as printers need it: no QoS, clean sessions.
type mqtt struct {
	net.Conn
	r *bufio.Reader
}

// The types of packets, with their flags.
const (
	mqttConnect   = 0x10
	mqttConnack   = 0x20
	mqttPublish   = 0x30
	mqttSubscribe = 0x82
	mqttSuback    = 0x90
	mqttPingreq   = 0xc0
	mqttPingresp  = 0xd0
)

// field returns a text with its length before it.
func field(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }

// send writes a packet.
func (m *mqtt) send(kind byte, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	packet := binary.AppendUvarint([]byte{kind}, uint64(n)) // the length has this form
	for _, p := range parts {
		packet = append(packet, p...)
	}
	m.SetWriteDeadline(time.Now().Add(answerWithin))
	_, err := m.Write(packet)
	return err
}

// receive returns the next packet. The error is a timeout if no packet begins within the time; the connection can then
// be used further.
func (m *mqtt) receive(within time.Duration) (kind byte, body []byte, err error) {
	m.SetReadDeadline(time.Now().Add(within))
	if _, err := m.r.Peek(1); err != nil {
		return 0, nil, err
	}
	m.SetReadDeadline(time.Now().Add(2 * answerWithin))
	kind, _ = m.r.ReadByte()
	n, err := binary.ReadUvarint(m.r)
	switch {
	case err != nil:
	case n > maxMessage:
		err = problem("protocol", "The printer sends a message of more than 4 MB.")
	default:
		body = make([]byte, n)
		_, err = io.ReadFull(m.r, body)
	}
	if err != nil {
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			err = io.ErrUnexpectedEOF // it stopped in the middle
		}
		return 0, nil, err
	}
	return kind, body, nil
}

// expect returns the body of the next packet, which must be of the kind.
func (m *mqtt) expect(kind byte) ([]byte, error) {
	got, body, err := m.receive(answerWithin)
	if err == nil && (got != kind || len(body) < 2) {
		err = problem("kind", "What answers does not speak MQTT 3.1.1.")
	}
	return body, err
}

// login connects and subscribes to a topic.
func (m *mqtt) login(id, user, password, topic string, keepAlive time.Duration) error {
	const credentials, clean = 0xc0, 0x02
	err := m.send(mqttConnect, field("MQTT"), []byte{4, credentials | clean},
		binary.BigEndian.AppendUint16(nil, uint16(keepAlive/time.Second)), field(id), field(user), field(password))
	if err != nil {
		return err
	}
	answer, err := m.expect(mqttConnack)
	switch {
	case err != nil:
		return err
	case answer[1] == 4 || answer[1] == 5:
		return problem("key", "The printer refuses the access code. Its screen shows the code, which changes when "+
			"LAN mode or developer mode is switched.")
	case answer[1] != 0:
		return problem("busy", "The printer refuses the connection with code %d.", answer[1])
	}
	if err := m.send(mqttSubscribe, []byte{0, 1}, field(topic), []byte{0}); err != nil {
		return err
	}
	// Messages of the topic may come before the acknowledgement; the printer sends the whole state later anyway.
	for {
		kind, body, err := m.receive(answerWithin)
		switch {
		case err != nil:
			return err
		case kind == mqttSuback && len(body) == 3 && body[2] < 0x80:
			return nil
		case kind == mqttSuback:
			return problem("key", "The printer does not let this connection read. Check the serial number.")
		}
	}
}

// publish sends a message without acknowledgement.
func (m *mqtt) publish(topic, text string) error {
	return m.send(mqttPublish, field(topic), []byte(text))
}

// message returns the text of a packet of kind mqttPublish, which has no QoS, because login asks for none.
func message(body []byte) ([]byte, error) {
	if len(body) < 2 {
		return nil, io.ErrUnexpectedEOF
	}
	n := 2 + int(binary.BigEndian.Uint16(body))
	if len(body) < n {
		return nil, io.ErrUnexpectedEOF
	}
	return body[n:], nil
}
