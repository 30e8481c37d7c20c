/** The certificates of a test cluster: one authority, and one key for each of its programs and users. */
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execProgram } from './kube-programs.ts'

export interface KubeKeys {
  readonly folder: string
  cert(name: string): string
  key(name: string): string
  readonly ca: string
  /** A kubeconfig for a user with a certificate of ours. */
  kubeconfig(name: string, server: string): Promise<string>
}

const DAYS = '2'

export async function makeKubeKeys(folder: string, addresses: readonly string[], node: string): Promise<KubeKeys> {
  await mkdir(folder, { mode: 0o700 })
  const at = (name: string): string => path.join(folder, name)
  const openssl = (...args: string[]) => execProgram('openssl', args)
  const newKey = (name: string) =>
    openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', at(`${name}.key`))
  await newKey('ca')
  const caUse = 'keyUsage=critical,keyCertSign,cRLSign,digitalSignature'
  const caFiles = ['-key', at('ca.key'), '-out', at('ca.crt')]
  await openssl('req', '-x509', '-new', '-subj', '/CN=berth-test', '-days', DAYS, '-addext', caUse, ...caFiles)
  const names = ['DNS:localhost', 'DNS:kubernetes', ...['127.0.0.1', ...addresses].map((ip) => `IP:${ip}`)].join(',')
  const sign = async (name: string, subject: string): Promise<void> => {
    await newKey(name)
    const use = 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature,keyEncipherment\n'
    const more = `extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=${names}\n`
    await writeFile(at(`${name}.ext`), use + more)
    await openssl('req', '-new', '-key', at(`${name}.key`), '-subj', subject, '-out', at(`${name}.csr`))
    const by = [
      '-CA',
      at('ca.crt'),
      '-CAkey',
      at('ca.key'),
      '-set_serial',
      `0x${randomBytes(8).toString('hex')}`,
      '-days',
      DAYS,
    ]
    await openssl(
      'x509',
      '-req',
      '-in',
      at(`${name}.csr`),
      ...by,
      '-extfile',
      at(`${name}.ext`),
      '-out',
      at(`${name}.crt`),
    )
  }
  await Promise.all([
    sign('server', '/CN=kube-apiserver'),
    sign('admin', '/O=system:masters/CN=admin'),
    sign('scheduler', '/CN=system:kube-scheduler'),
    sign('controllers', '/CN=system:kube-controller-manager'),
    sign('proxy', '/CN=system:kube-proxy'),
    sign('kubelet', `/O=system:nodes/CN=system:node:${node}`),
    newKey('accounts').then(() => openssl('ec', '-in', at('accounts.key'), '-pubout', '-out', at('accounts.pub'))),
  ])
  return {
    folder,
    ca: at('ca.crt'),
    cert: (name) => at(`${name}.crt`),
    key: (name) => at(`${name}.key`),
    kubeconfig: async (name, server) => {
      const file = at(`${name}.kubeconfig`)
      const user = { 'client-certificate': at(`${name}.crt`), 'client-key': at(`${name}.key`) }
      await writeFile(file, JSON.stringify(kubeconfigOf(server, at('ca.crt'), user)), { mode: 0o600 })
      return file
    },
  }
}

export function kubeconfigOf(server: string, ca: string, user: object): object {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'lab', cluster: { server, 'certificate-authority': ca } }],
    users: [{ name: 'user', user }],
    contexts: [{ name: 'lab', context: { cluster: 'lab', user: 'user' } }],
    'current-context': 'lab',
  }
}
