/** Providers at which the person signs in, and those that they can connect. */
import { MINUTE_MS, systemClock } from '../../../src/base/instant.ts'
import { limits } from '../../../src/base/limits.ts'
import type { Reply } from '../../../src/client/client.ts'
import { localDate } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { confirmPerson } from '../../api/step-up.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'

type Identity = Reply<'listIdentities'>['identities'][number]

export function Identities({ session }: Pick<Reply<'getPerson'>, 'session'>) {
  const list = useCall('listIdentities')
  const dialog = useDialog()
  return (
    <Card title="Providers">
      <Answer of={list} skeleton={<Skeleton rows={1} />}>
        {({ identities, choices }) => (
          <div className="flex flex-col gap-3">
            {identities.length === 0 && choices.length === 0 && (
              <p className="text-sm text-muted">This server has no provider at which you could sign in.</p>
            )}
            <ul className="flex flex-col gap-3 empty:hidden">
              {identities.map((one) => (
                <li key={one.id} className="flex items-start justify-between gap-3 text-sm">
                  <span className="min-w-0">
                    <span className="block font-medium">{one.providerName}</span>
                    <span className="block break-words text-muted">
                      {one.email ?? 'No address'}, connected {localDate(one.createdAt)}
                    </span>
                  </span>
                  <Button
                    aria-label={`Disconnect ${one.providerName}`}
                    onClick={() => dialog.open((close) => <DisconnectDialog identity={one} onClose={close} />)}
                  >
                    Disconnect
                  </Button>
                </li>
              ))}
            </ul>
            {choices.map(({ id, name, connectUrl }) => (
              <div key={id}>
                <Button onClick={() => void connect(connectUrl, session.authenticatedAt)}>Connect {name}</Button>
              </div>
            ))}
          </div>
        )}
      </Answer>
      {dialog.shown}
    </Card>
  )
}

/** Leaves the page. The server asks for a recent sign-in, which has to be there before. */
async function connect(url: string, authenticatedAt: string): Promise<void> {
  const isOld = systemClock.now() - Date.parse(authenticatedAt) > limits.recentSignInMs - MINUTE_MS
  if (isOld && !(await confirmPerson())) return
  location.assign(`${url}&return=${encodeURIComponent('/security')}`)
}

function DisconnectDialog({ identity: { id, providerName }, onClose }: { identity: Identity; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Disconnect ${providerName}?`}
      action="Disconnect"
      operation="removeIdentity"
      input={{ params: { id } }}
      refreshes={['listIdentities']}
      done={`Disconnected ${providerName}`}
      onClose={onClose}
    >
      <p>You cannot sign in with it any more. A code by email still works.</p>
    </ConfirmCall>
  )
}
