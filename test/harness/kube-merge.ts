/** A merge patch as administrator of a test cluster: the only way to remove a finalizer of someone else. */
import { readFile } from 'node:fs/promises'
import https from 'node:https'
import type { KubeCluster } from '../lab/kube-cluster.ts'

export async function mergePatch({ server, keys }: KubeCluster, path: string, patch: object): Promise<void> {
  const [ca, cert, key] = await Promise.all(
    [keys.ca, keys.cert('admin'), keys.key('admin')].map((file) => readFile(file)),
  )
  const headers = { 'content-type': 'application/merge-patch+json' }
  const status = await new Promise<number>((resolve, reject) => {
    const request = https.request(`${server}${path}`, { method: 'PATCH', headers, ca, cert, key }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0))
    })
    request.once('error', reject).end(JSON.stringify(patch))
  })
  // 404: removing its last finalizer removed it.
  if (status !== 200 && status !== 404) throw new Error(`PATCH ${path} answered ${status}`)
}
