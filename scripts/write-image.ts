/** `npm run image [-- FILE]`: builds the image of this checkout and prints what it is. */
import path from 'node:path'
import { buildImage } from './build-image.ts'

const MB = 1_000_000
const root = path.resolve(import.meta.dirname, '..')
const target = path.resolve(process.argv[2] ?? path.join(root, 'dist', 'berth-image.tar'))
const { name, digest, bytes, unpackedBytes } = await buildImage({ root, dist: path.join(root, 'dist'), target })
const size = `${Math.round(bytes / MB)} MB, ${Math.round(unpackedBytes / MB)} MB unpacked`
process.stdout.write(`Wrote ${name} to ${target} (${size}).\n${digest}\nTo load it: docker load -i ${target}\n`)
