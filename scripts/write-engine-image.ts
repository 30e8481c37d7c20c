/** `npm run engine-image [-- FILE]`: writes the image of the engines, for a registry or a cluster of your own. */
import path from 'node:path'
import packageJson from '../package.json' with { type: 'json' }
import { ENGINE_REPOSITORY } from '../src/contract/engine-image.ts'
import { buildEngineImage } from '../src/artifacts/oci/engine-image.ts'

const MB = 1_000_000
const root = path.resolve(import.meta.dirname, '..')
const dist = path.join(root, 'dist')
const target = path.resolve(process.argv[2] ?? path.join(dist, 'berth-engine.tar'))
const { tag, bytes } = await buildEngineImage({ root, dist, target, version: packageJson.version })
process.stdout.write(
  `Wrote ${ENGINE_REPOSITORY}:${tag} to ${target} (${Math.round(bytes / MB)} MB).\nTo load it: docker load -i ${target}\n`,
)
