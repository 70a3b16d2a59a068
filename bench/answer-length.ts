const CHUNKED_END = '\r\n0\r\n\r\n';

/** The length in characters of a whole response at the start of `text`, or -1 while more of it must come. */
export function responseLength(text: string): number {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd < 0) return -1;
  const head = text.slice(0, headEnd);
  const length = /\r\ncontent-length: *([0-9]+)/i.exec(head)?.[1];
  if (length !== undefined) {
    const end = headEnd + 4 + Number(length);
    return text.length >= end ? end : -1;
  }
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
    // From two characters before the body, so that an empty body's last chunk has its CRLF before it as well.
    return text.endsWith(CHUNKED_END) && text.length >= headEnd + 2 + CHUNKED_END.length ? text.length : -1;
  }
  return headEnd + 4;
}
