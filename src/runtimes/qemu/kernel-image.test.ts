import { describe, expect, test } from 'vitest'
import { unpackKernelImage } from './kernel-image.ts'

const elf = Buffer.from([0x7f, 0x45, 0x4c, 0x46])

/** A kernel file with one setup sector. */
function kernelFile(payload: Buffer): Buffer {
  const head = Buffer.alloc(2 * 512)
  head[0x1f1] = 1
  head.write('HdrS', 0x202)
  head.writeUInt32LE(16, 0x248)
  head.writeUInt32LE(payload.length, 0x24c)
  return Buffer.concat([head, Buffer.alloc(16), payload])
}

function lz4(bytes: number, ...blocks: Buffer[]): Buffer {
  const sized = blocks.flatMap((block) => [number(block.length), block])
  return Buffer.concat([number(0x184c2102), ...sized, number(bytes)])
}

function number(value: number): Buffer {
  const four = Buffer.alloc(4)
  four.writeUInt32LE(value)
  return four
}

describe('the kernel in a kernel file', () => {
  test('is unpacked: literals, copies that overlap, long lengths, several blocks', () => {
    const literal = Buffer.concat([Buffer.from([0x40 + 15]), elf, Buffer.from([4, 0, 2, 0x10, 0x21])])
    // 4 literals, 15 + 2 + 4 bytes from 4 back, then 1 literal; and a block of 15 + 3 literals.
    const long = Buffer.concat([Buffer.from([0xf0, 3]), Buffer.alloc(18, 0x2a)])
    const kernel = unpackKernelImage(kernelFile(lz4(44, literal, long)))
    const repeated = Buffer.concat(Array.from({ length: 7 }, () => elf)).subarray(0, 25)
    expect(kernel).toEqual(Buffer.concat([repeated, Buffer.from([0x21]), Buffer.alloc(18, 0x2a)]))
  })

  test('is not looked for in another file, compression or content', () => {
    expect(unpackKernelImage(Buffer.alloc(2_000))).toBeUndefined()
    expect(unpackKernelImage(kernelFile(Buffer.from('\x1f\x8b gzip instead')))).toBeUndefined()
    expect(unpackKernelImage(kernelFile(lz4(4, Buffer.from([0x40, 1, 2, 3, 4]))))).toBeUndefined()
  })

  test('is refused when damaged', () => {
    const before = Buffer.concat([Buffer.from([0x40]), elf, Buffer.from([5, 0])])
    expect(() => unpackKernelImage(kernelFile(lz4(8, before)))).toThrow('damaged')
    expect(() => unpackKernelImage(kernelFile(lz4(8, Buffer.concat([Buffer.from([0x40]), elf]))))).toThrow('4 bytes')
  })
})
