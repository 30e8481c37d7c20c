/** The command line at pods: `rent` returns, and pipes and files pass unchanged. */
import { expect, test } from 'vitest'
import { terminate, untilGone, untilStatus } from '../harness/instance.ts'
import { berthInPipes, checkCopies, checkPipes } from '../harness/moved-data.ts'
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
      const { name, status, sshCommand } = JSON.parse(out.toString()) as Record<string, string>
      expect({ status, sshCommand }).toEqual({ status: 'Running', sshCommand: '' })
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
}
