/** An invitation with the buttons to accept and decline it. Once accepted, the session acts in the account. */
import type { Reply } from '../../src/client/client.ts'
import { roleLabels } from '../../src/view/account.ts'
import { localTime } from '../../src/view/time.ts'
import { noteNewSession } from '../api/me.ts'
import { useAction } from '../api/query.ts'
import { Button } from '../ui/button.tsx'
import { Facts } from '../ui/card.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { toast } from '../ui/toast.tsx'
import { PublicCard } from './public-page.tsx'

type Offer = Reply<'getPerson'>['offers'][number]

const roleTexts = {
  owner: 'You can do everything, also manage members.',
  member: 'You can do everything except manage members and account settings.',
  viewer: 'You can view machines and billing, but change nothing.',
} as const satisfies Record<Offer['role'], string>

export function OfferCard({ offer }: { offer: Offer }) {
  const { id, accountName, role, sender, createdAt, expiresAt } = offer
  const accept = useAction('acceptOffer')
  const decline = useAction('declineOffer', ['getPerson'])
  const enter = (): void =>
    accept.mutate(
      { params: { id } },
      {
        onSuccess: () => {
          noteNewSession()
          // The whole page: nothing of another account stays.
          location.assign('/')
        },
      },
    )
  const refuse = (): void =>
    decline.mutate({ params: { id } }, { onSuccess: () => toast('The invitation is declined') })
  const error = accept.error ?? decline.error
  return (
    <PublicCard>
      <h2 className="text-lg font-semibold break-words">
        {accountName === null ? 'Open an account of your own' : `Join ${accountName}`}
      </h2>
      <Facts
        facts={[
          ['From', sender ?? 'An owner or the operator added you'],
          ['Role', accountName !== null && `${roleLabels[role]}. ${roleTexts[role]}`],
          ['Sent', localTime(createdAt)],
          ['Valid until', expiresAt !== null && localTime(expiresAt)],
        ]}
      />
      {error !== null && <ErrorNotice error={error} />}
      <div className="flex flex-wrap gap-2">
        <Button look="primary" busy={accept.isPending || accept.isSuccess} disabled={decline.isPending} onClick={enter}>
          {accountName === null ? 'Open account' : 'Accept'}
        </Button>
        <Button busy={decline.isPending} disabled={accept.isPending || accept.isSuccess} onClick={refuse}>
          Decline
        </Button>
      </div>
    </PublicCard>
  )
}
