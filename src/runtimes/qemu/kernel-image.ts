/**
 * The kernel inside a compressed x86 kernel file. An emulated processor takes over a second of CPU time to start the
 * compressed one: firmware loads it into memory and it unpacks itself. QEMU starts the kernel itself directly.
 */

const BOOT_SECTOR = { setupSectors: 0x1f1, magic: 0x202, payloadOffset: 0x248, payloadBytes: 0x24c } as const
const SECTOR_BYTES = 512
const LZ4_MAGIC = 0x184c2102
/** The block size of the legacy frame format, which the kernel uses. */
const LZ4_BLOCK_BYTES = 8_388_608
const ELF_MAGIC = 0x464c457f
const MAX_KERNEL_BYTES = 268_435_456

/** undefined: it is not compressed in the way that Debian compresses it. */
export function unpackKernelImage(file: Buffer): Buffer | undefined {
  if (file.length < SECTOR_BYTES * 2 || file.toString('latin1', BOOT_SECTOR.magic, BOOT_SECTOR.magic + 4) !== 'HdrS')
    return undefined
  const start =
    ((file[BOOT_SECTOR.setupSectors] || 4) + 1) * SECTOR_BYTES + file.readUInt32LE(BOOT_SECTOR.payloadOffset)
  const payload = file.subarray(start, start + file.readUInt32LE(BOOT_SECTOR.payloadBytes))
  if (payload.length < 8 || payload.readUInt32LE(0) !== LZ4_MAGIC) return undefined
  const bytes = payload.readUInt32LE(payload.length - 4)
  if (bytes > MAX_KERNEL_BYTES) return undefined
  const kernel = unpackBlocks(payload.subarray(4, -4), bytes)
  return kernel.readUInt32LE(0) === ELF_MAGIC ? kernel : undefined
}

function unpackBlocks(packed: Buffer, bytes: number): Buffer {
  const out = Buffer.alloc(bytes)
  let [from, to] = [0, 0]
  while (from < packed.length) {
    const size = packed.readUInt32LE(from)
    const block = packed.subarray(from + 4, from + 4 + size)
    to += unpackBlock(block, out.subarray(to, to + LZ4_BLOCK_BYTES))
    from += 4 + size
  }
  if (to !== bytes) throw new Error(`the kernel has ${to} bytes instead of ${bytes}`)
  return out
}

/**
 * A block is a list of literals, each followed by a copy of earlier output. Returns the bytes written. Byte by byte: most
 * copies are short, and a call of `copy` for each takes five times as long.
 */
function unpackBlock(block: Uint8Array, out: Uint8Array): number {
  let [from, to] = [0, 0]
  const length = (short: number): number => {
    let all = short
    for (let more = short === 15 ? 255 : 0; more === 255; from += 1) all += more = block[from] ?? 0
    return all
  }
  while (from < block.length) {
    const token = block[from] ?? 0
    from += 1
    const literalEnd = to + length(token >> 4)
    if (literalEnd > out.length) throw new Error('the kernel is damaged')
    for (; to < literalEnd; to += 1, from += 1) out[to] = block[from] ?? 0
    if (from >= block.length) break
    const distance = (block[from] ?? 0) | ((block[from + 1] ?? 0) << 8)
    from += 2
    const end = to + length(token & 15) + 4
    if (distance === 0 || distance > to || end > out.length) throw new Error('the kernel is damaged')
    for (; to < end; to += 1) out[to] = out[to - distance] ?? 0
  }
  return to
}
