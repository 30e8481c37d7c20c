/** Writes numbers of any width, highest bit first. */

export class BitWriter {
  #bytes = new Uint8Array(16_384)
  #length = 0
  /** The bits of the next byte. */
  #current = 0
  #count = 0

  /** The lowest `width` bits of the value; at most 31. */
  write(value: number, width: number): void {
    for (let bit = width - 1; bit >= 0; bit--) this.#bit((value >>> bit) & 1)
  }

  zeros(count: number): void {
    for (let i = 0; i < count; i++) this.#bit(0)
  }

  /** Only between two bytes. */
  bytes(bytes: Uint8Array): void {
    for (const byte of bytes) this.write(byte, 8)
  }

  soFar(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  /** All bytes, the last one filled with zeros. */
  finish(): Uint8Array {
    while (this.#count > 0) this.#bit(0)
    return this.soFar()
  }

  #bit(bit: number): void {
    this.#current = (this.#current << 1) | bit
    this.#count += 1
    if (this.#count < 8) return
    if (this.#length === this.#bytes.length) this.#grow()
    this.#bytes[this.#length++] = this.#current
    this.#current = 0
    this.#count = 0
  }

  #grow(): void {
    const larger = new Uint8Array(this.#bytes.length * 2)
    larger.set(this.#bytes)
    this.#bytes = larger
  }
}
