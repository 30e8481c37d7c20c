/** The command line at pods: `rent` returns, pipes and files pass unchanged, and no script of an image delays the bill. */
import { expect, test } from 'vitest'
import { rentInstance, terminate, untilGone, untilStatus } from '../harness/instance.ts'
import { succeed } from '../harness/journey.ts'
import { berthInPipes, checkCopies, checkPipes } from '../lab/moved-data.ts'
import { waitFor } from '../harness/wait.ts'
import type { KubeJourney } from './volume-journey.ts'

const SESSION_MS = 180_000

export function sessionJourney(get: () => KubeJourney): void {
  const envOf = ({ server, ada }: KubeJourney) => ({ BERTH_URL: server.url, BERTH_KEY: ada.key })

  test(
    'rent returns for an image whose command is a shell, and pipes and cp pass bytes unchanged (issue 31, C)',
    async () => {
      const { ada, node, image } = get()
      const env = envOf(get())
      const order = ['rent', '--machine', node.id, '--image', `${image.name}:${image.tag}`, '--yes']
      const { code, out, error } = await berthInPipes(env, [...order, '--json'])
      expect({ code, error }).toEqual({ code: 0, error: '' })
      const { name, state, ssh: login } = JSON.parse(out.toString()) as Record<string, string>
      expect({ state, login }).toEqual({ state: 'Running', login: null })
      await checkPipes(env, name ?? '')
      await checkCopies(env, name ?? '')
      const ssh = await berthInPipes(env, ['ssh', name ?? ''])
      expect(ssh).toMatchObject({ code: 1, error: expect.stringContaining(`berth terminal ${name}`) })
      // The shell has not ended meanwhile.
      await untilStatus(ada, name ?? '', 'online')
      await terminate(ada, name ?? '')
      await untilGone(ada, name ?? '')
    },
    SESSION_MS,
  )

  test(
    'an image whose sh sleeps is billed from the start of its container (issue 31, 7)',
    async () => {
      const { ada, node, image } = get()
      const name = await rentInstance(ada, node, image, {
        env: { PATH: '/asleep:/bin' },
        files: [{ path: '/asleep/sh', content: '#!/bin/busybox sh\nexec /bin/sleep 100000\n', mode: '0755' }],
        onStart: 'true',
        command: ['/bin/sleep', '100000'],
      })
      await untilStatus(ada, name, 'online')
      const cost = async () => Number((await succeed(ada.call, 'GET', `/v2/rentals/${name}`)).costSoFarUsd)
      expect(await waitFor('its first charge', cost)).toBeGreaterThan(0)
      await terminate(ada, name)
      await untilGone(ada, name)
    },
    SESSION_MS,
  )

  test(
    'a start script runs once for each start of the container, and its failure is in the log (issue 31, 7)',
    async () => {
      const { ada, node, image } = get()
      const name = await rentInstance(ada, node, image, {
        onStart: 'echo script ran; exit 5',
        command: ['/bin/sh', '-c', 'until [ -e /tmp/again ]; do sleep 0.1; done; exit 1'],
        restart: { policy: 'on-failure', maxRetries: 3 },
      })
      await untilStatus(ada, name, 'online')
      const log = async (): Promise<string> =>
        (await ada.call('GET', `/v2/rentals/${name}/logs`)).body.replaceAll('\r\n', '\n')
      const whole = 'script ran\nonStart: exited with code 5\n'
      await waitFor('the script', async () => (await log()) === whole)
      const again = await berthInPipes(envOf(get()), ['exec', name, '--', 'touch', '/tmp/again'])
      expect(again.code).toBe(0)
      // The log is that of the new container.
      await waitFor('its end', async () => (await log().catch(() => '')) !== whole)
      await waitFor('the script of the second start', async () => (await log()) === whole)
      await terminate(ada, name)
      await untilGone(ada, name)
    },
    SESSION_MS,
  )
}
