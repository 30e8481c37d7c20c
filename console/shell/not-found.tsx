/** An address that leads nowhere. */
import { ButtonLink } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { Page } from '../ui/page.tsx'

export function NotFound() {
  return (
    <Page title="There is no such page">
      <Empty title="This address leads nowhere" action={<ButtonLink to="/">Go to the overview</ButtonLink>}>
        It may have been typed wrongly, or what it showed is gone.
      </Empty>
    </Page>
  )
}
