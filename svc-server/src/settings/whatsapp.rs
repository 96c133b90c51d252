//! The settings of the WhatsApp sender.

#[cfg(feature = "whatsapp")]
use std::sync::Arc;

use super::table::*;
use super::{BadSetting, Source, bad};
use crate::sender::Sender;
#[cfg(feature = "whatsapp")]
use crate::whatsapp::{BadWhatsAppAccount, WhatsApp, WhatsAppAccount, WhatsAppWebhook};

#[cfg(feature = "whatsapp")]
impl Source<'_> {
    pub(super) fn whatsapp(&self) -> Result<Sender, BadSetting> {
        let needed = |var| self.text(var)?.ok_or_else(|| bad(var, "required with the sender whatsapp"));
        let token = self.text_or_file(WHATSAPP_TOKEN, WHATSAPP_TOKEN_FILE)?;
        let (token_var, token) = token.ok_or_else(|| {
            bad(WHATSAPP_TOKEN, format!("required with the sender whatsapp, here or in {WHATSAPP_TOKEN_FILE}"))
        })?;
        let mut account = WhatsAppAccount::new(&needed(WHATSAPP_PHONE_NUMBER_ID)?, &token, &needed(WHATSAPP_TEMPLATE)?);
        if let Some(version) = self.text(WHATSAPP_API_VERSION)? {
            account.version = version;
        }
        if let Some(api) = self.text(WHATSAPP_API_BASE)? {
            account.api = api;
        }
        let sender = WhatsApp::new(account).map_err(|why| {
            let var = match why {
                BadWhatsAppAccount::Api => WHATSAPP_API_BASE,
                BadWhatsAppAccount::Version => WHATSAPP_API_VERSION,
                BadWhatsAppAccount::PhoneNumberId => WHATSAPP_PHONE_NUMBER_ID,
                BadWhatsAppAccount::Token => token_var,
                BadWhatsAppAccount::Template => WHATSAPP_TEMPLATE,
            };
            bad(var, why)
        })?;
        Ok(Sender::WhatsApp(Arc::new(sender)))
    }

    /// Both of its settings, or none.
    pub(super) fn whatsapp_webhook(&self) -> Result<Option<WhatsAppWebhook>, BadSetting> {
        let secret = self.text_or_file(WHATSAPP_APP_SECRET, WHATSAPP_APP_SECRET_FILE)?;
        match (secret, self.text(WHATSAPP_VERIFY_TOKEN)?) {
            (None, None) => Ok(None),
            (Some((var, secret)), Some(token)) => {
                Ok(Some(WhatsAppWebhook::new(super::server_key(var, secret.into_bytes())?, token)))
            }
            (Some(_), None) => Err(bad(WHATSAPP_VERIFY_TOKEN, "required with the app's secret")),
            (None, Some(_)) => Err(bad(WHATSAPP_APP_SECRET, "required with the verify token")),
        }
    }
}

#[cfg(not(feature = "whatsapp"))]
impl Source<'_> {
    #[expect(clippy::unused_self, reason = "it reads nothing")]
    pub(super) fn whatsapp(&self) -> Result<Sender, BadSetting> {
        Err(bad(SENDER, "this program was built without WhatsApp"))
    }
}
