/** `npm run package [-- FILE]`: builds the package of this checkout and prints what it is. */
import path from 'node:path'
import packageJson from '../package.json' with { type: 'json' }
import { buildPackage } from './build-package.ts'

const MB = 1_000_000
const root = path.resolve(import.meta.dirname, '..')
const target = path.resolve(process.argv[2] ?? path.join(root, `berth-${packageJson.version}.tgz`))
const { bytes, unpackedBytes } = await buildPackage({ root, dist: path.join(root, 'dist'), target })
const size = `${Math.round(bytes / MB)} MB, ${Math.round(unpackedBytes / MB)} MB unpacked`
process.stdout.write(`Wrote ${target} (${size}).\nTo install it: npm install -g ${target}\n`)
