/** Checks the header of a model file, because impossible numbers in it would make the library read forever. */
import fs from 'node:fs/promises'

const HEADER_BYTES = 24
const VERSIONS = [2, 3]
/** Minimum size of an entry in either table: the length of a name, and a type or number of dimensions. */
const MIN_ENTRY_BYTES = 12

/** Throws an error whose message is for the operator. */
export async function checkGgufHeader(file: string): Promise<void> {
  const handle = await fs.open(file)
  try {
    const header = Buffer.alloc(HEADER_BYTES)
    const { bytesRead } = await handle.read(header)
    if (bytesRead < HEADER_BYTES || header.toString('latin1', 0, 4) !== 'GGUF') throw new Error('not a GGUF file')
    const version = header.readUInt32LE(4)
    if (!VERSIONS.includes(version)) throw new Error(`unsupported GGUF version ${version}`)
    const entries = header.readBigUInt64LE(8) + header.readBigUInt64LE(16)
    const { size } = await handle.stat()
    if (entries > BigInt(Math.floor(size / MIN_ENTRY_BYTES)))
      throw new Error('the header describes more data than the file has')
  } finally {
    await handle.close()
  }
}
