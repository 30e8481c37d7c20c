/** Another version of Node, from its npm package: Berth and the plain proxy run on both. */
import path from 'node:path'
import { installPeer, peerFolder } from './peer-cache.ts'

const VERSION = '24.9.0'
export const NODE_24 = `Node ${VERSION.split('.')[0]}`
const PACKAGE = `node-${process.platform}-${process.arch}`
const FOLDER = peerFolder(`node-${VERSION}`)
const PROGRAM = path.join(FOLDER, 'node_modules', PACKAGE, 'bin', 'node')
const INSTALL_WITHIN_MS = 300_000
const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', '--fetch-retries=1']

export type OtherNode = { readonly program: string } | { readonly missing: string }

export async function findNode24(): Promise<OtherNode> {
  if (process.versions.node.split('.')[0] === '24') return { missing: 'the bench itself runs on it' }
  const missing = await installPeer({
    name: `${PACKAGE} ${VERSION}`,
    folder: FOLDER,
    program: PROGRAM,
    commands: [['npm', 'install', '--prefix', FOLDER, ...flags, `${PACKAGE}@${VERSION}`]],
    withinMs: INSTALL_WITHIN_MS,
  })
  return missing === undefined ? { program: PROGRAM } : { missing }
}
