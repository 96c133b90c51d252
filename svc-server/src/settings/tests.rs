use super::*;

#[test]
fn producao_starts_only_with_settings_that_are_fit_for_it() {
    let key = "0123456789012345678901234567890123456789";
    let partners = std::env::temp_dir().join(format!("svc-settings-{}.json", std::process::id()));
    let entry = crate::NewPartner::draw("parceiro", &Random::system()).unwrap().entry;
    std::fs::write(&partners, format!("[{entry}]")).unwrap();
    let partners = partners.to_str().unwrap();
    let good = [
        (PROFILE, "producao"),
        (TOKEN_KEY, key),
        (LINK_KEY, key),
        (BASE_URL, "https://propostas.example.com"),
        (PARTNERS, partners),
        (SENDER, "log"),
    ];
    let read = |change: Option<(&str, &str)>| {
        Settings::read(|var| match change {
            Some((changed, value)) if changed == var => Some(value.into()),
            _ => good.iter().find(|(name, _)| *name == var).map(|(_, value)| value.into()),
        })
    };
    let settings = read(None).unwrap();
    assert_eq!(settings.config.schedule, Schedule::PRODUCAO);
    assert!(!settings.config.policy.may_reach("127.0.0.1".parse().unwrap()), "loopback is not opened by itself");
    for (var, value, why) in [
        (BASE_URL, "http://propostas.example.com", "must be https in producao"),
        (BASE_URL, "", "required in producao"),
        (SENDER, "", "required in producao"),
        (PARTNERS, "", "required in producao"),
        (TOKEN_KEY, "", "required in producao and with a database, here or in SVC_TOKEN_KEY_FILE"),
        (LINK_KEY, "", "required in producao and with a database, here or in SVC_LINK_KEY_FILE"),
        (LINK_KEY, "short", "key has fewer than 32 bytes"),
    ] {
        assert_eq!(read(Some((var, value))).unwrap_err(), BadSetting { var, why: why.to_owned() });
    }
    std::fs::remove_file(partners).unwrap();
}

#[cfg(feature = "whatsapp")]
#[test]
fn each_part_of_a_whatsapp_account_is_checked_under_its_own_name() {
    let good = [
        (SENDER, "whatsapp"),
        (WHATSAPP_TOKEN, "EAAG"),
        (WHATSAPP_PHONE_NUMBER_ID, "106540352242922"),
        (WHATSAPP_TEMPLATE, "proposta_de_emprestimo"),
        (WHATSAPP_APP_SECRET, "0123456789abcdef0123456789abcdef"),
        (WHATSAPP_VERIFY_TOKEN, "combinado"),
    ];
    let read = |change: Option<(&str, &str)>| {
        Settings::read(|var| match change {
            Some((changed, value)) if changed == var => Some(value.into()),
            _ => good.iter().find(|(name, _)| *name == var).map(|(_, value)| value.into()),
        })
    };
    let settings = read(None).unwrap();
    assert!(matches!(settings.config.sender, Sender::WhatsApp(_)) && settings.config.whatsapp_webhook.is_some());
    for change in [(WHATSAPP_API_VERSION, "v24.0"), (WHATSAPP_API_BASE, "http://127.0.0.1:9000")] {
        assert!(read(Some(change)).is_ok(), "{change:?}");
    }
    for (var, value) in [
        (WHATSAPP_TOKEN, "com espaço"),
        (WHATSAPP_TOKEN, ""),
        (WHATSAPP_PHONE_NUMBER_ID, "+55 11 90000-0001"),
        (WHATSAPP_TEMPLATE, "Proposta"),
        (WHATSAPP_API_VERSION, "24.0"),
        (WHATSAPP_API_VERSION, "v24/../me"),
        (WHATSAPP_API_BASE, "http://graph.facebook.com"),
        (WHATSAPP_API_BASE, "https://graph.facebook.com/v24.0"),
        (WHATSAPP_APP_SECRET, "curto"),
        (WHATSAPP_VERIFY_TOKEN, ""),
    ] {
        let bad = read(Some((var, value))).unwrap_err();
        assert_eq!(bad.var, var, "{value}");
        assert!(value.is_empty() || !bad.to_string().contains(value), "{bad}");
    }
}
